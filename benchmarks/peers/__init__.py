"""One adapter per peer: `build(workload)` makes an agent the peer's own way and gives back what runs it."""
