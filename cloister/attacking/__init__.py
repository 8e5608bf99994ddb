"""The command `attack`: a search for the cheapest break of a defence, its folder, its report, and scenarios that replay it."""
