"""CPU flags, as Linux calls them, as traits of os-traits."""

from os_traits import get_traits  # type: ignore[import-untyped]

_PREFIX = "HW_CPU_X86_"
_OTHERWISE_CALLED = {
    "3dnow": ("3DNOW",),
    "abm": ("ABM",),
    "aes": ("AESNI",),
    "amx_bf16": ("AMXBF16",),
    "amx_int8": ("AMXINT8",),
    "amx_tile": ("AMXTILE",),
    "avx512_bitalg": ("AVX512BITALG",),
    "avx512_vbmi2": ("AVX512VBMI2",),
    "avx512_vnni": ("AVX512VNNI",),
    "avx512_vpopcntdq": ("AVX512VPOPCNTDQ",),
    "avx512ifma": ("AVX512IFMA",),
    "avx512vbmi": ("AVX512VBMI",),
    "bmi1": ("BMI",),
    "fma": ("FMA3",),
    "gfni": ("AVX512GFNI",),
    "ibpb": ("AMD_IBPB",),
    "md_clear": ("INTEL_MD_CLEAR",),
    "pcid": ("INTEL_PCID",),
    "pclmulqdq": ("CLMUL",),
    "pni": ("SSE3",),
    "rtm": ("TSX",),
    "sha_ni": ("SHA",),
    "sse4_1": ("SSE41",),
    "sse4_2": ("SSE42",),
    "svm": ("SVM", "AMD_SVM"),
    "vaes": ("AVX512VAES",),
    "virt_ssbd": ("AMD_VIRT_SSBD",),
    "vmx": ("VMX", "INTEL_VMX"),
    "vpclmulqdq": ("AVX512VPCLMULQDQ",),
}
"""Flags whose traits are not called after them."""
_KNOWN = frozenset(get_traits(_PREFIX))


def traits_of(flags: frozenset[str]) -> frozenset[str]:
    """Return the traits of a processor with these flags (`avx2`, `sse4_1`, ...)."""
    names = (name for flag in flags for name in _OTHERWISE_CALLED.get(flag, (flag.upper(),)))
    return frozenset(trait for name in names if (trait := f"{_PREFIX}{name}") in _KNOWN)
