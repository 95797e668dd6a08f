"""C++ symbols whose types the system's C++ library may be too old for."""

from __future__ import annotations

import pytest

from sightline.core.cxx_names import demangle

# As Clang mangles them (Itanium C++ ABI, builtin-type; S_ stands for what came first).
NAMES = {
    "_Z1fDF16_": "f(_Float16)",
    "_Z1fIDF16bEvPT_": "void f<__bf16>(__bf16*)",
    "_Z1kI5TraitILi576EEDF16_fLb1EEv6Params": "void k<Trait<576>, _Float16, float, true>(Params)",
    "_Z1gPDF16_S_DF16b": "g(_Float16*, _Float16*, __bf16)",
    "_Z1hDsDu": "h(char16_t, char8_t)",
    "_Zno": "_Zno",
}


@pytest.mark.parametrize(("symbol", "name"), NAMES.items(), ids=list(NAMES))
def test_types_of_sixteen_bits(symbol: str, name: str) -> None:
    # A younger library may know the standard's own name of the type.
    assert demangle(symbol).replace("std::bfloat16_t", "__bf16") == name
