"""What a corrupt party saw of a run, as one value, and what attacks on it find beside what they find where nothing is hidden."""
