"""What only the page of the zeroth-order methods has."""
