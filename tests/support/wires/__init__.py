"""Scripted far ends for the providers, on loopback."""
