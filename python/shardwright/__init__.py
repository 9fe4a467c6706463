"""shardwright: joint sharding and checkpointing plans for PyTorch models."""
