def relu(x):
    match x:
        case 0:
            return x
        case _:
            return x.clamp_min(0)
