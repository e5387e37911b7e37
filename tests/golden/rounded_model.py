"""transformers' float32 model with chosen roundings added, to tell rounding from mistakes.

An engine that quantises activations to int8 or keeps its keys and values in 16 bits differs from the truth even when
it is right. These models make only that difference, so they say how large it is expected to be.
"""

from reference_model import TransformersModel

INT8_BLOCK = 32  # Activations share one scale in blocks of this many, as ggml's and winnow's do.


def round_to_int8(x):
    """De-quantised int8 with the scale absmax / 127 for each block of the last axis."""
    blocks = x.reshape(-1, INT8_BLOCK)
    scale = blocks.abs().amax(dim=1, keepdim=True) / 127
    safe_scale = scale.masked_fill(scale == 0, 1)
    return ((blocks / safe_scale).round() * scale).reshape(x.shape)


class RoundedModel(TransformersModel):
    """Adds int8 rounding before every matrix product, or rounding of the cached keys and values, or both."""

    def __init__(self, gguf_model, int8_activations=False, kv_dtype=None):
        super().__init__(gguf_model)
        parts = (["activations int8"] if int8_activations else []) + ([f"K and V {kv_dtype}"] if kv_dtype else [])
        self.name = "float32, " + ", ".join(parts)
        self.kv_dtype = getattr(self.torch, kv_dtype) if kv_dtype else None
        for name, module in self.model.named_modules():
            if not isinstance(module, self.torch.nn.Linear):
                continue
            if int8_activations:
                module.register_forward_pre_hook(lambda _, inputs: (round_to_int8(inputs[0]),))
            if self.kv_dtype and name.endswith("v_proj"):
                module.register_forward_hook(lambda _, inputs, output: output.to(self.kv_dtype).float())

    def logits(self, ids):
        from transformers.models.llama import modeling_llama

        # Keys are cached after the rotation, where the class offers no hook; so the function is wrapped for this call.
        rotate = modeling_llama.apply_rotary_pos_emb

        def rotate_and_round(*args, **kwargs):
            q, k = rotate(*args, **kwargs)
            return q, k.to(self.kv_dtype).float()

        if self.kv_dtype:
            modeling_llama.apply_rotary_pos_emb = rotate_and_round
        try:
            return super().logits(ids)
        finally:
            modeling_llama.apply_rotary_pos_emb = rotate
