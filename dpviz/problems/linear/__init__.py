"""Linear models under convex losses, and quadratics."""
