"""Text: decoded without losing a byte, cut where a reader would, and resumed."""
