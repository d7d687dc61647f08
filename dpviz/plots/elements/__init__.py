"""What every figure is made of: style, axes, lines, labels, panels, words."""
