cuda_tile.module @device {
  entry @padded_entry(%0: tile<ptr<f32>>, %1: tile<ptr<f32>>, %2: tile<i32>) di_name = "padded" {
    %3 = constant <i32: 16> : tile<i32>
    %4 = constant <i32: 16> : tile<i32>
    %5 = iota : tile<16xi32>
    %6 = constant <i32: 16> : tile<i32>
    %7 = constant <i32: 16> : tile<i32>
    %8 = constant <i32: 1> : tile<i32>
    %9 = constant <i32: 1> : tile<i32>
    %10 = reshape %2 : tile<i32> -> tile<1xi32>
    %11 = constant <i32: 1> : tile<i32>
    %12 = constant <i32: 16> : tile<i32>
    %13 = broadcast %10 : tile<1xi32> -> tile<16xi32>
    %14 = cmpi less_than %5, %13, signed : tile<16xi32> -> tile<16xi1>
    %15 = constant <i32: 1> : tile<i32>
    %16 = reshape %1 : tile<ptr<f32>> -> tile<1xptr<f32>>
    %17 = constant <i32: 1> : tile<i32>
    %18 = constant <i32: 16> : tile<i32>
    %19 = broadcast %16 : tile<1xptr<f32>> -> tile<16xptr<f32>>
    %20 = constant <i32: 16> : tile<i32>
    %21 = offset %19, %5 : tile<16xptr<f32>>, tile<16xi32> -> tile<16xptr<f32>>
    %22 = constant <f32: 1.5> : tile<f32>
    %23 = reshape %22 : tile<f32> -> tile<1xf32>
    %24 = broadcast %23 : tile<1xf32> -> tile<16xf32>
    %25, %26 = load_ptr_tko relaxed device %21, %14, %24 optimization_hints = #cuda_tile.optimization_hints<sm_90 = {latency = 2}> : tile<16xptr<f32>>, tile<16xi1>, tile<16xf32> -> tile<16xf32>, token
    %27 = constant <i32: 0> : tile<i32>
    %37, %38 = cuda_tile.loop iter_values(%28 = %27, %29 = %25) : tile<i32>, tile<16xf32> -> tile<i32>, tile<16xf32> {
      %30 = addf %29, %29 : tile<16xf32>
      %31 = constant <i32: 1> : tile<i32>
      %32 = addi %28, %31 : tile<i32>
      %33 = constant <i32: 3> : tile<i32>
      %34 = cmpi greater_than_or_equal %32, %33, signed : tile<i32> -> tile<i1>
      %35, %36 = if %34 -> (tile<i32>, tile<16xf32>) {
        break %32, %30 : tile<i32>, tile<16xf32>
      } else {
        yield %32, %30 : tile<i32>, tile<16xf32>
      }
      continue %35, %36 : tile<i32>, tile<16xf32>
    }
    %39 = constant <f32: 2.0> : tile<16xf32>
    %40 = constant <i32: 0> : tile<i32>
    %41 = cat %38, %39 dim = 0 : tile<16xf32>, tile<16xf32> -> tile<32xf32>
    %42 = constant <i32: 1> : tile<i32>
    %43 = extract %41[%42] : tile<32xf32> -> tile<16xf32>
    %44 = mulf %38, %43 : tile<16xf32>
    %45 = constant <i32: 1> : tile<i32>
    %46 = reshape %0 : tile<ptr<f32>> -> tile<1xptr<f32>>
    %47 = constant <i32: 1> : tile<i32>
    %48 = constant <i32: 16> : tile<i32>
    %49 = broadcast %46 : tile<1xptr<f32>> -> tile<16xptr<f32>>
    %50 = constant <i32: 16> : tile<i32>
    %51 = offset %49, %5 : tile<16xptr<f32>>, tile<16xi32> -> tile<16xptr<f32>>
    %52 = store_ptr_tko weak %51, %44 : tile<16xptr<f32>>, tile<16xf32> -> token
    %53 = constant <i32: 0> : tile<i32>
    %54 = cmpi greater_than %2, %53, signed : tile<i32> -> tile<i1>
    assert %54, "no \"rows\"" : tile<i1>
    return
  }
}
