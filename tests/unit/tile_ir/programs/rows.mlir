cuda_tile.module @device {
  entry @rows_entry(%0: tile<ptr<f32>>, %1: tile<ptr<f16>>, %2: tile<i32>, %3: tile<i32>) di_name = "rows" {
    %4 = constant <i32: 8> : tile<i32>
    %5 = constant <i32: 16> : tile<i32>
    %6 = constant <i32: 8> : tile<i32>
    %7 = constant <i32: 16> : tile<i32>
    %8, %9, %10 = get_tile_block_id : tile<i32>
    %11 = assume bounded<0, ?>, %8 : tile<i32>
    %12 = assume bounded<0, ?>, %9 : tile<i32>
    %13 = assume bounded<0, ?>, %10 : tile<i32>
    %14 = assume div_by<8>, %3 : tile<i32>
    %15 = assume div_by<16>, %1 : tile<ptr<f16>>
    %16 = make_token : token
    %17 = make_tensor_view %15, shape = [%2, %3], strides = [%14, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
    %18 = constant <i32: -1> : tile<i32>
    %19 = constant <i32: -1> : tile<i32>
    %20 = constant <i32: -1> : tile<i32>
    %21 = constant <i32: -1> : tile<i32>
    %22 = make_partition_view %17 : partition_view<tile=(8x16), padding_value = neg_inf, tensor_view<?x?xf16, strides=[?,1]>>
    %23 = constant <i32: 1> : tile<i32>
    %24, %25 = get_index_space_shape %22 : partition_view<tile=(8x16), padding_value = neg_inf, tensor_view<?x?xf16, strides=[?,1]>> -> tile<i32>
    %26 = constant <f32: -inf> : tile<8xf32>
    %27 = constant <i32: 0> : tile<i32>
    %28 = constant <i32: 1> : tile<i32>
    %34 = constant <i32: 8> : tile<i32>
    %35 = divi %2, %34 signed : tile<i32>
    %36 = remi %2, %34 signed : tile<i32>
    %37 = constant <i32: 1> : tile<i32>
    %38 = mini %36, %37 signed : tile<i32>
    %39 = addi %35, %38 : tile<i32>
    %40 = cmpi less_than %11, %39, signed : tile<i32> -> tile<i1>
    %41 = constant <i32: 0> : tile<i32>
    %42 = cmpi greater_than_or_equal %11, %41, signed : tile<i32> -> tile<i1>
    %43 = andi %42, %40 : tile<i1>
    %44 = cmpi less_than_or_equal %25, %27, signed : tile<i32> -> tile<i1>
    %45 = ori %44, %43 : tile<i1>
    assert %45, "partition access out of bounds: dim 0, block index >= ceil(?/8) or index < 0" : tile<i1>
    %54 = for %29 in (%27 to %25, step %28) : tile<i32> iter_values(%30 = %26) -> (tile<8xf32>) {
      %31 = assume bounded<0, ?>, %29 : tile<i32>
      %32 = constant <i32: 8> : tile<i32>
      %33 = constant <i32: 16> : tile<i32>
      %46, %47 = load_view_tko weak %22[%11, %31] token = %16 : partition_view<tile=(8x16), padding_value = neg_inf, tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> tile<8x16xf16>, token
      %48 = ftof %46 : tile<8x16xf16> -> tile<8x16xf32>
      %52 = reduce %48 dim=1 identities=[-inf] : tile<8x16xf32> -> tile<8xf32> {
      ^bb0(%49: tile<f32>, %50: tile<f32>):
        %51 = maxf %49, %50 {rounding_mode = 0} : tile<f32>
        yield %51 : tile<f32>
      }
      %53 = maxf %30, %52 : tile<8xf32>
      continue %53 : tile<8xf32>
    }
    %55 = constant <i32: 1> : tile<i32>
    %56 = constant <i32: 0> : tile<i32>
    %57 = constant <i32: 16> : tile<i32>
    %58 = constant <i32: 8> : tile<i32>
    %59 = constant <i32: -1> : tile<i32>
    %60 = constant <i32: -1> : tile<i32>
    %61 = constant <i32: -1> : tile<i32>
    %62 = constant <i32: -1> : tile<i32>
    %63 = make_partition_view %17 : partition_view<tile=(16x8), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>, dim_map=[1,0]>
    %64 = constant <i32: 0> : tile<i32>
    %65 = constant <i32: 16> : tile<i32>
    %66 = constant <i32: 8> : tile<i32>
    %67 = constant <i32: 16> : tile<i32>
    %68 = divi %3, %67 signed : tile<i32>
    %69 = remi %3, %67 signed : tile<i32>
    %70 = constant <i32: 1> : tile<i32>
    %71 = mini %69, %70 signed : tile<i32>
    %72 = addi %68, %71 : tile<i32>
    %73 = cmpi less_than %64, %72, signed : tile<i32> -> tile<i1>
    assert %73, "partition access out of bounds: dim 0, block index >= ceil(?/16)" : tile<i1>
    %74 = constant <i32: 8> : tile<i32>
    %75 = divi %2, %74 signed : tile<i32>
    %76 = remi %2, %74 signed : tile<i32>
    %77 = constant <i32: 1> : tile<i32>
    %78 = mini %76, %77 signed : tile<i32>
    %79 = addi %75, %78 : tile<i32>
    %80 = cmpi less_than %11, %79, signed : tile<i32> -> tile<i1>
    %81 = constant <i32: 0> : tile<i32>
    %82 = cmpi greater_than_or_equal %11, %81, signed : tile<i32> -> tile<i1>
    %83 = andi %82, %80 : tile<i1>
    assert %83, "partition access out of bounds: dim 1, block index >= ceil(?/8) or index < 0" : tile<i1>
    %84, %85 = load_view_tko weak %63[%64, %11] token = %16 : partition_view<tile=(16x8), padding_value = zero, tensor_view<?x?xf16, strides=[?,1]>, dim_map=[1,0]>, tile<i32> -> tile<16x8xf16>, token
    %86 = ftof %84 : tile<16x8xf16> -> tile<16x8xf32>
    %90 = reduce %86 dim=0 identities=[0] : tile<16x8xf32> -> tile<8xf32> {
    ^bb0(%87: tile<f32>, %88: tile<f32>):
      %89 = addf %87, %88 : tile<f32>
      yield %89 : tile<f32>
    }
    %94 = reduce %86 dim=0 identities=[inf] : tile<16x8xf32> -> tile<8xf32> {
    ^bb0(%91: tile<f32>, %92: tile<f32>):
      %93 = minf %91, %92 {rounding_mode = 0} : tile<f32>
      yield %93 : tile<f32>
    }
    %95 = mulf %90, %94 : tile<8xf32>
    %96 = addf %54, %95 : tile<8xf32>
    %97 = make_token : token
    %98 = make_tensor_view %0, shape = [%2], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %99 = constant <i32: 8> : tile<i32>
    %100 = constant <i32: -1> : tile<i32>
    %101 = constant <i32: -1> : tile<i32>
    %102 = make_partition_view %98 : partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>
    %103 = constant <i32: 8> : tile<i32>
    %104 = constant <i32: 8> : tile<i32>
    %105 = divi %2, %104 signed : tile<i32>
    %106 = remi %2, %104 signed : tile<i32>
    %107 = constant <i32: 1> : tile<i32>
    %108 = mini %106, %107 signed : tile<i32>
    %109 = addi %105, %108 : tile<i32>
    %110 = cmpi less_than %11, %109, signed : tile<i32> -> tile<i1>
    %111 = constant <i32: 0> : tile<i32>
    %112 = cmpi greater_than_or_equal %11, %111, signed : tile<i32> -> tile<i1>
    %113 = andi %112, %110 : tile<i1>
    assert %113, "partition access out of bounds: dim 0, block index >= ceil(?/8) or index < 0" : tile<i1>
    %114 = store_view_tko weak %96, %102[%11] token = %97 : tile<8xf32>, partition_view<tile=(8), tensor_view<?xf32, strides=[1]>>, tile<i32> -> token
    return
  }
}
