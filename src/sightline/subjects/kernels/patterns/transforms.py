"""Convolutions, spectra and weights that are unfolded, doubled or unpacked in memory."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.roofline.operators.arguments import Arguments
from sightline.subjects.kernels.patterns._sizes import get_bytes
from sightline.subjects.kernels.patterns.declare import Keep, Pattern, match_each, match_row

# cuFFT: sizes whose prime factors are all below 128 have kernels, others go by Bluestein's.
_LARGEST_PRIME = 127
_PRODUCT = "aten::(?:mm|addmm|bmm|baddbmm)"


def _keep_all_none(several: Sequence[Arguments]) -> Keep:
    return 0


def _keep_half_spectrum(args: Arguments) -> Keep:
    """_fft_r2c(x, dim, normalization, onesided): of a real input half of the spectrum is enough."""
    real = args.tensor(0)
    return 2 * get_bytes(real) if real and args.flag(3) is False else None


def _keep_smooth(args: Arguments) -> Keep:
    """Sizes with a large prime factor: at a smooth size, a pass for each dimension."""
    tensor, dims = args.tensor(0), args.integers(1)
    if tensor is None or not dims or max(map(abs, dims)) > len(tensor.shape):
        return None
    sizes = [tensor.shape[dim] for dim in dims if -len(tensor.shape) <= dim < len(tensor.shape)]
    awkward = any(_find_largest_prime(size) > _LARGEST_PRIME for size in sizes)
    return 2 * len(sizes) * get_bytes(tensor) if awkward else None


def _find_largest_prime(number: int) -> int:
    """The largest prime factor; 1 of 0 and 1."""
    largest, factor = 1, 2
    while factor * factor <= number:
        while number % factor == 0:
            largest, number = factor, number // factor
        factor += 1
    return max(largest, number)


PATTERNS = (
    Pattern(
        "convolution-by-unfolding",
        "Convolution by unfolding",
        match_row("aten::im2col", before=_PRODUCT, keep=_keep_all_none),
        cause="a convolution is an unfold, which writes each pixel once for each place of the "
        "kernel, and a product",
        fix="torch.nn.functional.conv2d, whose kernels gather the pixels themselves",
        source="PyTorch: torch.nn.Unfold; NVIDIA: Convolutional Layers User's Guide",
    ),
    Pattern(
        "weights-unpacked-before-product",
        "Quantized weights unpacked before each product",
        match_row("bitsandbytes::dequantize\\w*", before=_PRODUCT, keep=_keep_all_none),
        cause="quantized weights are written out in 16 bits before each product that reads them",
        fix="a kernel that unpacks while it multiplies (Marlin, bitsandbytes' for one row), or "
        "larger batches, which share the unpacking",
        source="Frantar et al., MARLIN (2024); Hugging Face Transformers: Quantization",
        with_backward=False,
    ),
    Pattern(
        "whole-spectrum-of-real-input",
        "Whole spectrum of a real input",
        match_each("aten::_fft_r2c", _keep_half_spectrum),
        cause="a transform of a real tensor writes both halves of its spectrum, which are mirrored",
        fix="torch.fft.rfft and irfft",
        source="PyTorch: torch.fft.rfft",
    ),
    Pattern(
        "awkward-transform-size",
        "Fourier transforms of an awkward size",
        match_each("aten::_fft_(?:r2c|c2c|c2r)", _keep_smooth),
        cause="the size of a Fourier transform has a prime factor over 127, for which cuFFT has no "
        "kernel of its own",
        fix="pad to a size of small prime factors (scipy.fft.next_fast_len)",
        source="NVIDIA: cuFFT, Accuracy and Performance",
    ),
)
