"""What only the page of private tuning has."""
