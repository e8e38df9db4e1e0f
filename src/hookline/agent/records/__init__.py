"""The records of a run by key: what resume, replay and back-test look answers up in."""
