"""The tests, and the pieces they share."""
