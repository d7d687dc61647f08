"""Problems of which algorithms use values only."""
