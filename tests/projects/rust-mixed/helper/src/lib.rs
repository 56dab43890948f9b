pub const UNIT: i64 = 1;
