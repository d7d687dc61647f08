"""The methods: one class each, registered when the family is imported."""
