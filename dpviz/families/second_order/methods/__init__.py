"""Second-order methods, and the releases, states and steps that they share."""
