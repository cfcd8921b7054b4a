"""Conversations as exact tokens, their store, and the service that answers them."""
