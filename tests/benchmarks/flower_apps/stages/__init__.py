"""An app whose rounds are played by Cloister or, in the same federation, by Flower's SecAgg+ workflow."""
