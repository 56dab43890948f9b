entry @padded_entry(%arg0: tile<ptr<f32>>, %arg1: tile<ptr<f32>>, %arg2: tile<i32>) {
  %cst_16_i32 = constant <i32: 16> : tile<i32>
  %cst_16_i32_0 = constant <i32: 16> : tile<i32>
  %0 = iota : tile<16xi32>
  %cst_16_i32_1 = constant <i32: 16> : tile<i32>
  %cst_16_i32_2 = constant <i32: 16> : tile<i32>
  %cst_1_i32 = constant <i32: 1> : tile<i32>
  %cst_1_i32_3 = constant <i32: 1> : tile<i32>
  %reshape = reshape %arg2 : tile<i32> -> tile<1xi32>
  %cst_1_i32_4 = constant <i32: 1> : tile<i32>
  %cst_16_i32_5 = constant <i32: 16> : tile<i32>
  %bcast = broadcast %reshape : tile<1xi32> -> tile<16xi32>
  %1 = cmpi less_than %0, %bcast, signed : tile<16xi32> -> tile<16xi1>
  %cst_1_i32_6 = constant <i32: 1> : tile<i32>
  %reshape_7 = reshape %arg1 : tile<ptr<f32>> -> tile<1xptr<f32>>
  %cst_1_i32_8 = constant <i32: 1> : tile<i32>
  %cst_16_i32_9 = constant <i32: 16> : tile<i32>
  %bcast_10 = broadcast %reshape_7 : tile<1xptr<f32>> -> tile<16xptr<f32>>
  %cst_16_i32_11 = constant <i32: 16> : tile<i32>
  %2 = offset %bcast_10, %0 : tile<16xptr<f32>>, tile<16xi32> -> tile<16xptr<f32>>
  %cst_f32 = constant <f32: 1.500000e+00> : tile<f32>
  %reshape_12 = reshape %cst_f32 : tile<f32> -> tile<1xf32>
  %bcast_13 = broadcast %reshape_12 : tile<1xf32> -> tile<16xf32>
  %result, %result_token = load_ptr_tko relaxed device %2, %1, %bcast_13 optimization_hints = <sm_90 = {latency = 2}> : tile<16xptr<f32>>, tile<16xi1>, tile<16xf32> -> tile<16xf32>, token
  %cst_0_i32 = constant <i32: 0> : tile<i32>
  %3:2 = loop iter_values(%arg3 = %cst_0_i32, %arg4 = %result) : tile<i32>, tile<16xf32> -> tile<i32>, tile<16xf32> {
    %10 = addf %arg4, %arg4  : tile<16xf32>
    %cst_1_i32_23 = constant <i32: 1> : tile<i32>
    %11 = addi %arg3, %cst_1_i32_23 : tile<i32>
    %cst_3_i32 = constant <i32: 3> : tile<i32>
    %12 = cmpi greater_than_or_equal %11, %cst_3_i32, signed : tile<i32> -> tile<i1>
    %13:2 = if %12 -> (tile<i32>, tile<16xf32>) {
      break %11, %10 : tile<i32>, tile<16xf32>
    } else {
      yield %11, %10 : tile<i32>, tile<16xf32>
    }
    continue %13#0, %13#1 : tile<i32>, tile<16xf32>
  }
  %cst_2_f32 = constant <f32: 2.000000e+00> : tile<16xf32>
  %cst_0_i32_14 = constant <i32: 0> : tile<i32>
  %4 = cat %3#1, %cst_2_f32 dim = 0 : tile<16xf32>, tile<16xf32> -> tile<32xf32>
  %cst_1_i32_15 = constant <i32: 1> : tile<i32>
  %5 = extract %4[%cst_1_i32_15] : tile<32xf32> -> tile<16xf32>
  %6 = mulf %3#1, %5  : tile<16xf32>
  %cst_1_i32_16 = constant <i32: 1> : tile<i32>
  %reshape_17 = reshape %arg0 : tile<ptr<f32>> -> tile<1xptr<f32>>
  %cst_1_i32_18 = constant <i32: 1> : tile<i32>
  %cst_16_i32_19 = constant <i32: 16> : tile<i32>
  %bcast_20 = broadcast %reshape_17 : tile<1xptr<f32>> -> tile<16xptr<f32>>
  %cst_16_i32_21 = constant <i32: 16> : tile<i32>
  %7 = offset %bcast_20, %0 : tile<16xptr<f32>>, tile<16xi32> -> tile<16xptr<f32>>
  %8 = store_ptr_tko weak %7, %6 : tile<16xptr<f32>>, tile<16xf32> -> token
  %cst_0_i32_22 = constant <i32: 0> : tile<i32>
  %9 = cmpi greater_than %arg2, %cst_0_i32_22, signed : tile<i32> -> tile<i1>
  assert %9, "no \22rows\22" : tile<i1>
  return
}
