"""Methods for games: one class each, registered when the family is imported."""
