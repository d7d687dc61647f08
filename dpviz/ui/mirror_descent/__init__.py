"""What only the page of the private games has."""
