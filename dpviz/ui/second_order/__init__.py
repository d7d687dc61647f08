"""What only the page of the second-order methods has."""
