"""Problems of which only values are asked."""
