&[
    ::kernelyard_cuda::Entry {
        function: "scale",
        symbol: "scale_f16_64",
        fatbin: (0, 32),
        driver: (13, 0),
        keys: &[("T", ::kernelyard_cuda::Value::Type("f16")), ("D", ::kernelyard_cuda::Value::Int(64))],
        parameters: &[
            ::kernelyard_cuda::Parameter::Pointer,
            ::kernelyard_cuda::Parameter::Pointer,
            ::kernelyard_cuda::Parameter::I32,
            ::kernelyard_cuda::Parameter::I64,
            ::kernelyard_cuda::Parameter::F32,
            ::kernelyard_cuda::Parameter::F64,
        ],
        variants: &[
            ::kernelyard_cuda::Variant { capability: (8, 0), exact: false, portable: false, tuned: &[("BM", 64)], checks: &[] },
            ::kernelyard_cuda::Variant { capability: (9, 0), exact: true, portable: false, tuned: &[("BM", 128)], checks: &[
                ::kernelyard_cuda::Check {
                    grid: [-1, 0, 0],
                    constant: 1001,
                    relation: ::kernelyard_cuda::Relation::Positive,
                    cause: "at most 1000 blocks are numbered",
                },
            ] },
            ::kernelyard_cuda::Variant { capability: (12, 0), exact: true, portable: true, tuned: &[("BM", 256)], checks: &[] },
        ],
    },
    ::kernelyard_cuda::Entry {
        function: "scale",
        symbol: "scale_f16_128",
        fatbin: (32, 32),
        driver: (13, 0),
        keys: &[("T", ::kernelyard_cuda::Value::Type("f16")), ("D", ::kernelyard_cuda::Value::Int(128))],
        parameters: &[
            ::kernelyard_cuda::Parameter::Pointer,
            ::kernelyard_cuda::Parameter::Pointer,
            ::kernelyard_cuda::Parameter::I32,
            ::kernelyard_cuda::Parameter::I64,
            ::kernelyard_cuda::Parameter::F32,
            ::kernelyard_cuda::Parameter::F64,
        ],
        variants: &[
            ::kernelyard_cuda::Variant { capability: (8, 0), exact: false, portable: false, tuned: &[("BM", 64)], checks: &[] },
            ::kernelyard_cuda::Variant { capability: (9, 0), exact: true, portable: false, tuned: &[("BM", 128)], checks: &[
                ::kernelyard_cuda::Check {
                    grid: [-1, 0, 0],
                    constant: 1001,
                    relation: ::kernelyard_cuda::Relation::Positive,
                    cause: "at most 1000 blocks are numbered",
                },
            ] },
            ::kernelyard_cuda::Variant { capability: (12, 0), exact: true, portable: true, tuned: &[("BM", 256)], checks: &[] },
        ],
    },
    ::kernelyard_cuda::Entry {
        function: "scale",
        symbol: "scale_bf16_64",
        fatbin: (64, 32),
        driver: (13, 0),
        keys: &[("T", ::kernelyard_cuda::Value::Type("bf16")), ("D", ::kernelyard_cuda::Value::Int(64))],
        parameters: &[
            ::kernelyard_cuda::Parameter::Pointer,
            ::kernelyard_cuda::Parameter::Pointer,
            ::kernelyard_cuda::Parameter::I32,
            ::kernelyard_cuda::Parameter::I64,
            ::kernelyard_cuda::Parameter::F32,
            ::kernelyard_cuda::Parameter::F64,
        ],
        variants: &[
            ::kernelyard_cuda::Variant { capability: (8, 0), exact: false, portable: false, tuned: &[("BM", 64)], checks: &[] },
            ::kernelyard_cuda::Variant { capability: (9, 0), exact: true, portable: false, tuned: &[("BM", 128)], checks: &[
                ::kernelyard_cuda::Check {
                    grid: [-1, 0, 0],
                    constant: 1001,
                    relation: ::kernelyard_cuda::Relation::Positive,
                    cause: "at most 1000 blocks are numbered",
                },
            ] },
            ::kernelyard_cuda::Variant { capability: (12, 0), exact: true, portable: true, tuned: &[("BM", 256)], checks: &[] },
        ],
    },
    ::kernelyard_cuda::Entry {
        function: "plain",
        symbol: "plain",
        fatbin: (96, 32),
        driver: (12, 0),
        keys: &[],
        parameters: &[
            ::kernelyard_cuda::Parameter::B64,
            ::kernelyard_cuda::Parameter::B32,
        ],
        variants: &[
            ::kernelyard_cuda::Variant { capability: (7, 5), exact: false, portable: true, tuned: &[], checks: &[] },
        ],
    },
    ::kernelyard_cuda::Entry {
        function: "other",
        symbol: "other",
        fatbin: (96, 32),
        driver: (12, 0),
        keys: &[],
        parameters: &[
            ::kernelyard_cuda::Parameter::B64,
            ::kernelyard_cuda::Parameter::B32,
        ],
        variants: &[
            ::kernelyard_cuda::Variant { capability: (7, 5), exact: false, portable: true, tuned: &[], checks: &[] },
        ],
    },
]
