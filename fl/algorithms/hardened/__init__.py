"""What the hardened FLIC is made of: evidence, forks, choices, shares, serving."""
