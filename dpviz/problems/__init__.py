"""Problems to optimise: they clip their data, so that their Queries have a known sensitivity."""
