"""What only the page of the accelerated methods has."""
