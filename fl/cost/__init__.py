"""What a protection costs, measured without training."""
