"""Roles, and what drives them: how parties are carried forward by events."""
