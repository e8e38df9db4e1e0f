"""What is harmless, program by program: data, and checks for the small languages that some programs speak."""
