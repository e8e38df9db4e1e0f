"""A run that continues from its record after its process died."""
