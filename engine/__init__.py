"""The engine: requests in, tokens out, over a paged and shared KV cache."""
