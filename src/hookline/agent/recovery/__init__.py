"""A run that goes on from its record after its process died."""
