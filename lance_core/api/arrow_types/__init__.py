"""Arrow types that `arrow` offers. Importing `arrow` registers them, importing these modules does not.

bfloat16         arrays of bfloat16 in Arrow, NumPy and pandas
bfloat16_values  single values of bfloat16, and the rounding of floats
images           columns of images: addresses, encoded images, pixels
"""
