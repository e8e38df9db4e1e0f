"""The builder: an agent described in any order, and checked when it is built."""
