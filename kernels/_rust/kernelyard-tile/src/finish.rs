//! What is changed in a module that the tile compiler has made.

use cutile_ir::ir::{Attribute, Module, Operation};

use crate::location::Package;

/// Give the entry its symbol, and make the module the same on every machine and in every run.
pub(crate) fn finish(module: &mut Module, symbol: &str, package: Package) {
    for id in module.functions.clone() {
        for (name, value) in &mut module.op_mut(id).attributes {
            if name == "sym_name" {
                *value = Attribute::String(symbol.to_owned());
            }
        }
    }
    for_each(module, |operation| {
        package.relocate(&mut operation.location);
        sort_hints(operation);
    });
}

/// The compiler keeps the hints of an access in a map without an order of its own.
fn sort_hints(operation: &mut Operation) {
    for (_, attribute) in &mut operation.attributes {
        if let Attribute::OptimizationHints(hints) = attribute {
            for (_, values) in &mut hints.entries {
                values.sort_by(|(left, _), (right, _)| left.cmp(right));
            }
        }
    }
}

fn for_each(module: &mut Module, mut change: impl FnMut(&mut Operation)) {
    let mut left = module.functions.clone();
    while let Some(id) = left.pop() {
        change(module.op_mut(id));
        for region in module.op(id).regions.clone() {
            for &block in &module.region(region).blocks {
                left.extend(&module.block(block).ops);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cutile_ir::builder::{append_op, build_single_block_region, OpBuilder};
    use cutile_ir::bytecode::Opcode;
    use cutile_ir::ir::{Location, OptimizationHints};

    fn hints(names: [&str; 2]) -> Attribute {
        let values = names.map(|name| (name.to_owned(), Attribute::Bool(true))).into();
        Attribute::OptimizationHints(OptimizationHints { entries: vec![("sm_90".to_owned(), values)] })
    }

    #[test]
    fn every_operation_is_changed() {
        let mut module = Module::new("sample");
        let (region, block, _) = build_single_block_region(&mut module, &[]);
        let place =
            Location::FileLineCol { filename: "/home/me/silu/device/src/lib.rs".to_owned(), line: 3, column: 4 };
        let (inner, _) =
            OpBuilder::new(Opcode::Return, place).attr("hints", hints(["latency", "allow_tma"])).build(&mut module);
        append_op(&mut module, block, inner);
        let entry =
            OpBuilder::new(Opcode::Entry, Location::Unknown).attr("sym_name", Attribute::String("a_entry".into()));
        let (entry, _) = entry.region(region).build(&mut module);
        module.functions.push(entry);

        finish(&mut module, "a_f16", Package { name: "silu-device", folder: "/home/me/silu/device" });
        assert_eq!(format!("{:?}", module.op(entry).attributes), "[(\"sym_name\", String(\"a_f16\"))]");
        let sorted = hints(["allow_tma", "latency"]);
        assert_eq!(format!("{:?}", module.op(inner).attributes[0].1), format!("{sorted:?}"));
        let place = Location::FileLineCol { filename: "silu-device/src/lib.rs".to_owned(), line: 3, column: 4 };
        assert_eq!(module.op(inner).location, place);
    }
}
