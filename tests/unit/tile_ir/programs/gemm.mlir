cuda_tile.module @device {
  entry @gemm_entry(%0: tile<ptr<f32>>, %1: tile<ptr<f16>>, %2: tile<ptr<f16>>, %3: tile<i32>, %4: tile<i32>, %5: tile<i32>) di_name = "gemm" {
    %6 = constant <i32: 16> : tile<i32>
    %7 = constant <i32: 32> : tile<i32>
    %8 = constant <i32: 8> : tile<i32>
    %9 = constant <i32: 16> : tile<i32>
    %10 = constant <i32: 32> : tile<i32>
    %11 = constant <i32: 8> : tile<i32>
    %12, %13, %14 = get_tile_block_id : tile<i32>
    %15 = assume bounded<0, ?>, %12 : tile<i32>
    %16 = assume bounded<0, ?>, %13 : tile<i32>
    %17 = assume bounded<0, ?>, %14 : tile<i32>
    %18 = make_token : token
    %19 = make_tensor_view %1, shape = [%3, %5], strides = [%5, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %20 = make_token : token
    %21 = make_tensor_view %2, shape = [%5, %4], strides = [%4, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %22 = constant <i32: 16> : tile<i32>
    %23 = constant <i32: 8> : tile<i32>
    %24 = constant <i32: -1> : tile<i32>
    %25 = constant <i32: -1> : tile<i32>
    %26 = constant <i32: -1> : tile<i32>
    %27 = constant <i32: -1> : tile<i32>
    %28 = make_partition_view %19 : partition_view<tile=(16x8), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %29 = constant <i32: 8> : tile<i32>
    %30 = constant <i32: 32> : tile<i32>
    %31 = constant <i32: -1> : tile<i32>
    %32 = constant <i32: -1> : tile<i32>
    %33 = constant <i32: -1> : tile<i32>
    %34 = constant <i32: -1> : tile<i32>
    %35 = make_partition_view %21 : partition_view<tile=(8x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>
    %36 = constant <f32: 0.0> : tile<16x32xf32>
    %37 = divi %5, %11 signed rounding positive_inf : tile<i32>
    %38 = constant <i32: 0> : tile<i32>
    %39 = constant <i32: 1> : tile<i32>
    %45 = constant <i32: 16> : tile<i32>
    %46 = divi %3, %45 signed : tile<i32>
    %47 = remi %3, %45 signed : tile<i32>
    %48 = constant <i32: 1> : tile<i32>
    %49 = mini %47, %48 signed : tile<i32>
    %50 = addi %46, %49 : tile<i32>
    %51 = cmpi less_than %15, %50, signed : tile<i32> -> tile<i1>
    %52 = constant <i32: 0> : tile<i32>
    %53 = cmpi greater_than_or_equal %15, %52, signed : tile<i32> -> tile<i1>
    %54 = andi %53, %51 : tile<i1>
    %55 = cmpi less_than_or_equal %37, %38, signed : tile<i32> -> tile<i1>
    %56 = ori %55, %54 : tile<i1>
    assert %56, "partition access out of bounds: dim 0, block index >= ceil(?/16) or index < 0" : tile<i1>
    %57 = constant <i32: 8> : tile<i32>
    %58 = constant <i32: 1> : tile<i32>
    %59 = subi %37, %58 : tile<i32>
    %60 = divi %5, %57 signed : tile<i32>
    %61 = remi %5, %57 signed : tile<i32>
    %62 = constant <i32: 1> : tile<i32>
    %63 = mini %61, %62 signed : tile<i32>
    %64 = addi %60, %63 : tile<i32>
    %65 = cmpi less_than %59, %64, signed : tile<i32> -> tile<i1>
    %66 = constant <i32: 0> : tile<i32>
    %67 = cmpi greater_than_or_equal %38, %66, signed : tile<i32> -> tile<i1>
    %68 = andi %67, %65 : tile<i1>
    %69 = cmpi less_than_or_equal %37, %38, signed : tile<i32> -> tile<i1>
    %70 = ori %69, %68 : tile<i1>
    assert %70, "partition access out of bounds: dim 1, block index >= ceil(?/8) or index < 0" : tile<i1>
    %75 = constant <i32: 8> : tile<i32>
    %76 = constant <i32: 1> : tile<i32>
    %77 = subi %37, %76 : tile<i32>
    %78 = divi %5, %75 signed : tile<i32>
    %79 = remi %5, %75 signed : tile<i32>
    %80 = constant <i32: 1> : tile<i32>
    %81 = mini %79, %80 signed : tile<i32>
    %82 = addi %78, %81 : tile<i32>
    %83 = cmpi less_than %77, %82, signed : tile<i32> -> tile<i1>
    %84 = constant <i32: 0> : tile<i32>
    %85 = cmpi greater_than_or_equal %38, %84, signed : tile<i32> -> tile<i1>
    %86 = andi %85, %83 : tile<i1>
    %87 = cmpi less_than_or_equal %37, %38, signed : tile<i32> -> tile<i1>
    %88 = ori %87, %86 : tile<i1>
    assert %88, "partition access out of bounds: dim 0, block index >= ceil(?/8) or index < 0" : tile<i1>
    %89 = constant <i32: 32> : tile<i32>
    %90 = divi %4, %89 signed : tile<i32>
    %91 = remi %4, %89 signed : tile<i32>
    %92 = constant <i32: 1> : tile<i32>
    %93 = mini %91, %92 signed : tile<i32>
    %94 = addi %90, %93 : tile<i32>
    %95 = cmpi less_than %16, %94, signed : tile<i32> -> tile<i1>
    %96 = constant <i32: 0> : tile<i32>
    %97 = cmpi greater_than_or_equal %16, %96, signed : tile<i32> -> tile<i1>
    %98 = andi %97, %95 : tile<i1>
    %99 = cmpi less_than_or_equal %37, %38, signed : tile<i32> -> tile<i1>
    %100 = ori %99, %98 : tile<i1>
    assert %100, "partition access out of bounds: dim 1, block index >= ceil(?/32) or index < 0" : tile<i1>
    %104 = for %40 in (%38 to %37, step %39) : tile<i32> iter_values(%41 = %36) -> (tile<16x32xf32>) {
      %42 = assume bounded<0, ?>, %40 : tile<i32>
      %43 = constant <i32: 16> : tile<i32>
      %44 = constant <i32: 8> : tile<i32>
      %71, %72 = load_view_tko weak %28[%15, %42] token = %18 : partition_view<tile=(16x8), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<16x8xf16>, token
      %73 = constant <i32: 8> : tile<i32>
      %74 = constant <i32: 32> : tile<i32>
      %101, %102 = load_view_tko weak %35[%42, %16] token = %20 : partition_view<tile=(8x32), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<8x32xf16>, token
      %103 = mmaf %71, %101, %41 : tile<16x8xf16>, tile<8x32xf16>, tile<16x32xf32>
      continue %103 : tile<16x32xf32>
    }
    %105 = make_token : token
    %106 = make_tensor_view %0, shape = [%3, %4], strides = [%4, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %107 = constant <i32: 16> : tile<i32>
    %108 = constant <i32: 32> : tile<i32>
    %109 = constant <i32: -1> : tile<i32>
    %110 = constant <i32: -1> : tile<i32>
    %111 = constant <i32: -1> : tile<i32>
    %112 = constant <i32: -1> : tile<i32>
    %113 = make_partition_view %106 : partition_view<tile=(16x32), tensor_view<?x?xf32, strides=[?,1]>>
    %114 = constant <i32: 16> : tile<i32>
    %115 = constant <i32: 32> : tile<i32>
    %116 = constant <i32: 16> : tile<i32>
    %117 = divi %3, %116 signed : tile<i32>
    %118 = remi %3, %116 signed : tile<i32>
    %119 = constant <i32: 1> : tile<i32>
    %120 = mini %118, %119 signed : tile<i32>
    %121 = addi %117, %120 : tile<i32>
    %122 = cmpi less_than %15, %121, signed : tile<i32> -> tile<i1>
    %123 = constant <i32: 0> : tile<i32>
    %124 = cmpi greater_than_or_equal %15, %123, signed : tile<i32> -> tile<i1>
    %125 = andi %124, %122 : tile<i1>
    assert %125, "partition access out of bounds: dim 0, block index >= ceil(?/16) or index < 0" : tile<i1>
    %126 = constant <i32: 32> : tile<i32>
    %127 = divi %4, %126 signed : tile<i32>
    %128 = remi %4, %126 signed : tile<i32>
    %129 = constant <i32: 1> : tile<i32>
    %130 = mini %128, %129 signed : tile<i32>
    %131 = addi %127, %130 : tile<i32>
    %132 = cmpi less_than %16, %131, signed : tile<i32> -> tile<i1>
    %133 = constant <i32: 0> : tile<i32>
    %134 = cmpi greater_than_or_equal %16, %133, signed : tile<i32> -> tile<i1>
    %135 = andi %134, %132 : tile<i1>
    assert %135, "partition access out of bounds: dim 1, block index >= ceil(?/32) or index < 0" : tile<i1>
    %136 = store_view_tko weak %104, %113[%15, %16] token = %105 : tile<16x32xf32>, partition_view<tile=(16x32), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
    return
  }
}
