"""The index: which pages hold the KV of which token prefix. Integers only, no tensors."""
