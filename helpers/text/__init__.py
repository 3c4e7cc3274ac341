"""Text: decode it without losing a byte, cut it between characters, and resume after the cut."""
