"""Plans of models: what a training step or a forward pass launches, layer by layer, in ns."""

from __future__ import annotations

from dataclasses import dataclass, field

from worlds.kernels import Kernel

Ops = list[tuple[str, list[Kernel]]]  # a framework operator and what it launches


def k(kind: str, us: float, share: float = 1.0) -> Kernel:
    """A kernel of `us` microseconds."""
    return Kernel(kind, us * 1_000, share)


@dataclass
class Layer:
    """One layer: its operators in the forward and in the backward pass, and its weights."""

    forward: Ops
    backward: Ops = field(default_factory=list)
    weights: int = 0  # bytes of gradients
    tensors: int = 4  # parameters, as an unfused optimizer sees them


@dataclass
class Model:
    """A model and what trains or runs it."""

    layers: list[Layer]
    head: Layer
    optimizer: list[Kernel]
    batch_bytes: int
    steps: int = 8

    def step_ns(self) -> float:
        """What the device has to do in one step."""
        layers = [*self.layers, self.head]
        ops = [op for layer in layers for op in (*layer.forward, *layer.backward)]
        return sum(x.ns for _, ks in ops for x in ks) + sum(x.ns for x in self.optimizer)

    def op_count(self) -> int:
        """Operators in one step."""
        return sum(len(x.forward) + len(x.backward) for x in (*self.layers, self.head))


def transformer(layers: int = 10, size: float = 1.0, steps: int = 7) -> Model:
    """A decoder trained in bf16 with flash attention and a fused optimizer."""
    layer = Layer(
        [
            ("aten::layer_norm", [k("norm", 24 * size)]),
            ("aten::linear", [k("gemm", 170 * size)]),
            ("aten::scaled_dot_product_attention", [k("flash", 120 * size)]),
            ("aten::linear", [k("gemm", 68 * size)]),
            ("aten::add", [k("add", 21 * size)]),
            ("aten::layer_norm", [k("norm", 24 * size)]),
            ("aten::linear", [k("gemm_wide", 235 * size)]),
            ("aten::gelu", [k("gelu", 41 * size)]),
            ("aten::linear", [k("gemm_wide", 230 * size)]),
            ("aten::add", [k("add", 21 * size)]),
        ],
        [
            ("AddmmBackward0", [k("gemm_grad", 232 * size), k("gemm_grad", 236 * size)]),
            ("GeluBackward0", [k("gelu_grad", 52 * size)]),
            ("AddmmBackward0", [k("gemm_grad", 231 * size), k("gemm_grad", 238 * size)]),
            ("NativeLayerNormBackward0", [k("norm_grad", 58 * size)]),
            ("AddBackward0", [k("add", 21 * size)]),
            ("AddmmBackward0", [k("gemm_grad", 69 * size), k("gemm_grad", 72 * size)]),
            ("ScaledDotProductFlashAttentionBackward0", [k("flash_grad", 280 * size)]),
            ("AddmmBackward0", [k("gemm_grad", 172 * size), k("gemm_grad", 175 * size)]),
            ("NativeLayerNormBackward0", [k("norm_grad", 58 * size)]),
        ],
        weights=25_000_000,
        tensors=12,
    )
    head = Layer(
        [
            ("aten::linear", [k("gemm_wide", 420 * size)]),
            ("aten::cross_entropy_loss", [k("softmax", 130 * size), k("loss", 9)]),
        ],
        [
            ("NllLossBackward0", [k("softmax", 140 * size)]),
            ("AddmmBackward0", [k("gemm_grad", 430 * size), k("gemm_grad", 440 * size)]),
        ],
        weights=12_000_000,
    )
    adam = [k("adam", 260 * size) for _ in range(max(2, layers // 2))]
    return Model([layer] * layers, head, adam, 65_536, steps)


def resnet(steps: int = 7) -> Model:
    """A convolutional net in bf16, channels last, fed by a data loader."""

    def block(width: float) -> Layer:
        forward: Ops = []
        backward: Ops = []
        for us in (85, 150, 110):
            forward += [
                ("aten::conv2d", [k("conv", us * width)]),
                ("aten::cudnn_batch_norm", [k("batch_norm", 42 * width)]),
                ("aten::relu_", [k("relu", 26 * width)]),
            ]
            backward += [
                ("ReluBackward0", [k("relu_grad", 38 * width)]),
                ("CudnnBatchNormBackward0", [k("batch_norm_grad", 66 * width)]),
                (
                    "ConvolutionBackward0",
                    [k("conv_grad", us * 1.1 * width), k("conv_weight", us * 1.2 * width)],
                ),
            ]
        forward.append(("aten::add_", [k("add", 30 * width)]))
        return Layer(forward, backward, weights=6_000_000, tensors=9)

    stem = Layer(
        [
            ("aten::conv2d", [k("conv", 420)]),
            ("aten::cudnn_batch_norm", [k("batch_norm", 190)]),
            ("aten::relu_", [k("relu", 110)]),
            ("aten::max_pool2d", [k("pool", 160)]),
        ],
        [
            ("CudnnBatchNormBackward0", [k("batch_norm_grad", 300)]),
            ("ConvolutionBackward0", [k("conv_weight", 480)]),
        ],
        weights=40_000,
        tensors=3,
    )
    head = Layer(
        [
            ("aten::mean", [k("argmax", 18)]),
            ("aten::linear", [k("gemm", 40)]),
            ("aten::cross_entropy_loss", [k("softmax", 12), k("loss", 6)]),
        ],
        [("AddmmBackward0", [k("gemm_grad", 38), k("gemm_grad", 36)])],
        weights=4_000_000,
    )
    blocks = [block(w) for w in (1.6, 1.5, 1.5, 1.1, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.8)]
    return Model([stem, *blocks], head, [k("adam", 210) for _ in range(2)], 100_000_000, steps)


def graph_net(steps: int = 8) -> Model:
    """A graph network: gathers, sparse products, scatters of middling size."""
    layer = Layer(
        [
            ("aten::index_select", [k("gather", 95)]),
            ("aten::linear", [k("gemm", 110)]),
            ("torch_sparse::spmm", [k("spmm", 310)]),
            ("aten::scatter_add_", [k("scatter", 140)]),
            ("aten::relu", [k("relu", 35)]),
            ("aten::add", [k("add", 40)]),
        ],
        [
            ("ReluBackward0", [k("relu_grad", 42)]),
            ("ScatterAddBackward0", [k("gather", 100)]),
            ("SpmmBackward0", [k("spmm", 330)]),
            ("AddmmBackward0", [k("gemm_grad", 108), k("gemm_grad", 112)]),
            ("IndexSelectBackward0", [k("scatter", 150)]),
        ],
        weights=2_000_000,
    )
    head = Layer(
        [("aten::log_softmax", [k("softmax", 30)]), ("aten::nll_loss", [k("loss", 6)])],
        [("NllLossBackward0", [k("softmax", 32)])],
    )
    return Model([layer] * 9, head, [k("adam", 90)], 20_000_000, steps)


def recommender(steps: int = 8) -> Model:
    """Embedding tables and a dense tower."""
    table = Layer(
        [("fbgemm::split_embedding_codegen_lookup", [k("embedding", 640)])],
        [("CppNode<SplitLookupFunction>", [k("embedding_grad", 1_050)])],
    )
    tower = Layer(
        [
            ("aten::linear", [k("gemm", 210)]),
            ("aten::relu", [k("relu", 44)]),
            ("aten::linear", [k("gemm", 180)]),
            ("aten::relu", [k("relu", 40)]),
        ],
        [
            ("ReluBackward0", [k("relu_grad", 50)]),
            ("AddmmBackward0", [k("gemm_grad", 205), k("gemm_grad", 215)]),
            ("ReluBackward0", [k("relu_grad", 50)]),
            ("AddmmBackward0", [k("gemm_grad", 185), k("gemm_grad", 190)]),
        ],
        weights=9_000_000,
    )
    head = Layer(
        [("aten::binary_cross_entropy", [k("loss", 20)])],
        [("BinaryCrossEntropyBackward0", [k("mul", 18)])],
    )
    layers = [tower, tower, table, table, table, tower, tower, tower, tower]
    return Model(layers, head, [k("adam", 140) for _ in range(2)], 40_000_000, steps)


def unet(steps: int = 10) -> Model:
    """A diffusion model's denoising steps: forward only."""
    block = Layer(
        [
            ("aten::group_norm", [k("norm", 44)]),
            ("aten::silu", [k("gelu", 32)]),
            ("aten::conv2d", [k("conv", 330)]),
            ("aten::group_norm", [k("norm", 44)]),
            ("aten::silu", [k("gelu", 32)]),
            ("aten::conv2d", [k("conv", 340)]),
            ("aten::add", [k("add", 30)]),
            ("aten::scaled_dot_product_attention", [k("flash", 210)]),
            ("aten::linear", [k("gemm", 120)]),
        ]
    )
    head = Layer([("aten::add", [k("add", 30)]), ("aten::mul", [k("mul", 22)])])
    return Model([block] * 20, head, [], 0, steps)


def decoder(layers: int = 24, size: float = 1.0, steps: int = 25) -> Model:
    """A language model that decodes: seven short kernels a layer."""
    layer = Layer(
        [
            ("_C::fused_add_rms_norm", [k("rms", 3.2 * size, 0.4)]),
            ("aten::linear", [k("gemm", 16 * size)]),
            ("_C::paged_attention_v2", [k("paged", 21 * size)]),
            ("aten::linear", [k("gemm", 12 * size)]),
            ("_C::fused_add_rms_norm", [k("rms", 3.2 * size, 0.4)]),
            ("aten::linear", [k("gemm_wide", 34 * size)]),
            ("_C::silu_and_mul", [k("silu", 4.5 * size, 0.5)]),
            ("aten::linear", [k("gemm_wide", 24 * size)]),
        ]
    )
    head = Layer(
        [("aten::linear", [k("gemm_wide", 130 * size)]), ("aten::argmax", [k("argmax", 11)])]
    )
    return Model([layer] * layers, head, [], 4_096, steps)
