"""Arrow types that `lance_core.api.arrow` offers. These modules register none of the types with Arrow.

bfloat16         arrays of bfloat16 in Arrow, NumPy and pandas
bfloat16_values  single values of bfloat16, and the rounding of floats
images           columns of images: addresses, encoded images, pixels
"""
