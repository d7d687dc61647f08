"""What only the page of this family has."""
