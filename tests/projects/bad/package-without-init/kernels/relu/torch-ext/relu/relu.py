RELU = "relu"
