"""transformers' own decoder over the weights of one of our checkpoints: an independent judge."""

from __future__ import annotations

from transformers import LlamaConfig, LlamaForCausalLM

from radixchat.engine.weights import Checkpoint


def reference_decoder(checkpoint: Checkpoint) -> LlamaForCausalLM:
    """transformers' decoder with our dequantised weights; its own GGUF loading takes 30 s."""
    config = checkpoint.config
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.num_layers,
            num_attention_heads=config.num_heads,
            num_key_value_heads=config.num_kv_heads,
            head_dim=config.head_dim,
            max_position_embeddings=config.max_position,
            rms_norm_eps=config.rms_eps,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_theta},
            tie_word_embeddings=config.tied_embeddings,
        )
    )
    weights = checkpoint.dense()
    state = {f"model.{name}": tensor for name, tensor in weights.items()}
    state["lm_head.weight"] = weights["embed_tokens.weight"]
    model.load_state_dict(state)
    return model.eval()
