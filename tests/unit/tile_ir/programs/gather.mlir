cuda_tile.module @device {
  entry @gather_entry(%0: tile<ptr<bf16>>, %1: tile<ptr<bf16>>, %2: tile<i32>, %3: tile<f32>) di_name = "gather" {
    %4 = constant <i32: 16> : tile<i32>
    %5 = constant <i32: 16> : tile<i32>
    %6, %7, %8 = get_tile_block_id : tile<i32>
    %9 = assume bounded<0, ?>, %6 : tile<i32>
    %10 = assume bounded<0, ?>, %7 : tile<i32>
    %11 = assume bounded<0, ?>, %8 : tile<i32>
    %12, %13, %14 = get_num_tile_blocks : tile<i32>
    %15 = assume bounded<0, ?>, %12 : tile<i32>
    %16 = assume bounded<0, ?>, %13 : tile<i32>
    %17 = assume bounded<0, ?>, %14 : tile<i32>
    %18 = iota : tile<16xi32>
    %19 = muli %9, %5 : tile<i32>
    %118 = cuda_tile.loop iter_values(%20 = %19) : tile<i32> -> tile<i32> {
      %21 = cmpi less_than %20, %2, signed : tile<i32> -> tile<i1>
      if %21 {
      } else {
        break %20 : tile<i32>
      }
      %22 = constant <i32: 16> : tile<i32>
      %23 = constant <i32: 16> : tile<i32>
      %24 = constant <i32: 1> : tile<i32>
      %25 = constant <i32: 1> : tile<i32>
      %26 = reshape %20 : tile<i32> -> tile<1xi32>
      %27 = constant <i32: 1> : tile<i32>
      %28 = constant <i32: 16> : tile<i32>
      %29 = broadcast %26 : tile<1xi32> -> tile<16xi32>
      %30 = addi %18, %29 : tile<16xi32>
      %31 = exti %30 signed : tile<16xi32> -> tile<16xi64>
      %32 = constant <i32: 16> : tile<i32>
      %33 = constant <i32: 16> : tile<i32>
      %34 = constant <i32: 1> : tile<i32>
      %35 = constant <i32: 1> : tile<i32>
      %36 = reshape %2 : tile<i32> -> tile<1xi32>
      %37 = constant <i32: 1> : tile<i32>
      %38 = constant <i32: 16> : tile<i32>
      %39 = broadcast %36 : tile<1xi32> -> tile<16xi32>
      %40 = cmpi less_than %30, %39, signed : tile<16xi32> -> tile<16xi1>
      %41 = constant <i32: 1> : tile<i32>
      %42 = reshape %1 : tile<ptr<bf16>> -> tile<1xptr<bf16>>
      %43 = constant <i32: 1> : tile<i32>
      %44 = constant <i32: 16> : tile<i32>
      %45 = broadcast %42 : tile<1xptr<bf16>> -> tile<16xptr<bf16>>
      %46 = constant <i32: 16> : tile<i32>
      %47 = offset %45, %31 : tile<16xptr<bf16>>, tile<16xi64> -> tile<16xptr<bf16>>
      %48, %49 = load_ptr_tko weak %47, %40 : tile<16xptr<bf16>>, tile<16xi1> -> tile<16xbf16>, token
      %50 = ftof %48 : tile<16xbf16> -> tile<16xf32>
      %51 = constant <i32: 16> : tile<i32>
      %52 = constant <i32: 16> : tile<i32>
      %53 = constant <i32: 1> : tile<i32>
      %54 = constant <i32: 1> : tile<i32>
      %55 = reshape %3 : tile<f32> -> tile<1xf32>
      %56 = constant <i32: 1> : tile<i32>
      %57 = constant <i32: 16> : tile<i32>
      %58 = broadcast %55 : tile<1xf32> -> tile<16xf32>
      %59 = mulf %50, %58 : tile<16xf32>
      %60 = tanh %59 : tile<16xf32>
      %61 = exp %50 : tile<16xf32>
      %62 = addf %60, %61 : tile<16xf32>
      %63 = absf %50 : tile<16xf32>
      %64 = addf %63, %58 : tile<16xf32>
      %65 = log %64 : tile<16xf32>
      %66 = subf %62, %65 : tile<16xf32>
      %67 = fma %66, %58, %66 : tile<16xf32>
      %68 = absf %67 : tile<16xf32>
      %69 = sqrt %68 : tile<16xf32>
      %70 = addf %67, %69 : tile<16xf32>
      %71 = rsqrt %58 flush_to_zero : tile<16xf32>
      %72 = addf %70, %71 : tile<16xf32>
      %73 = log2 %58 : tile<16xf32>
      %74 = addf %72, %73 : tile<16xf32>
      %75 = floor %72 : tile<16xf32>
      %76 = addf %74, %75 : tile<16xf32>
      %77 = ceil %72 : tile<16xf32>
      %78 = addf %76, %77 : tile<16xf32>
      %79 = sin %72 : tile<16xf32>
      %80 = addf %78, %79 : tile<16xf32>
      %81 = cos %72 : tile<16xf32>
      %82 = addf %80, %81 : tile<16xf32>
      %83 = negf %72 : tile<16xf32>
      %84 = subf %82, %83 : tile<16xf32>
      %85 = ftoi %84 signed : tile<16xf32> -> tile<16xi32>
      %86 = absi %85 : tile<16xi32>
      %87 = negi %85 : tile<16xi32>
      %88 = subi %86, %87 : tile<16xi32>
      %89 = itof %88 signed : tile<16xi32> -> tile<16xf32>
      %90 = cmpf greater_than ordered %84, %58 : tile<16xf32> -> tile<16xi1>
      %91 = exti %90 unsigned : tile<16xi1> -> tile<16xi32>
      %92 = itof %91 signed : tile<16xi32> -> tile<16xf32>
      %93 = select %90, %84, %89 : tile<16xi1>, tile<16xf32>
      %94 = addf %93, %92 : tile<16xf32>
      %98 = scan %94 dim=0 reverse=false identities=[0] : tile<16xf32> -> tile<16xf32> {
      ^bb0(%95: tile<f32>, %96: tile<f32>):
        %97 = addf %95, %96 : tile<f32>
        yield %97 : tile<f32>
      }
      %99 = bitcast %98 : tile<16xf32> -> tile<16xi32>
      %100 = constant <i32: -1> : tile<16xi32>
      %101 = andi %99, %100 : tile<16xi32>
      %102 = constant <i32: 0> : tile<16xi32>
      %103 = xori %101, %102 : tile<16xi32>
      %104 = bitcast %103 : tile<16xi32> -> tile<16xf32>
      %105 = ftof %104 : tile<16xf32> -> tile<16xbf16>
      %106 = mulf %105, %48 : tile<16xbf16>
      %107 = addf %106, %105 : tile<16xbf16>
      %108 = constant <i32: 1> : tile<i32>
      %109 = reshape %0 : tile<ptr<bf16>> -> tile<1xptr<bf16>>
      %110 = constant <i32: 1> : tile<i32>
      %111 = constant <i32: 16> : tile<i32>
      %112 = broadcast %109 : tile<1xptr<bf16>> -> tile<16xptr<bf16>>
      %113 = constant <i32: 16> : tile<i32>
      %114 = offset %112, %30 : tile<16xptr<bf16>>, tile<16xi32> -> tile<16xptr<bf16>>
      %115 = store_ptr_tko weak %114, %107, %40 token=%49 : tile<16xptr<bf16>>, tile<16xbf16>, tile<16xi1> -> token
      %116 = muli %15, %5 : tile<i32>
      %117 = addi %20, %116 : tile<i32>
      continue %117 : tile<i32>
    }
    return
  }
}
