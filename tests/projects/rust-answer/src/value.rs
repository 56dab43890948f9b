pub fn answer() -> i64 {
    111 + if cfg!(feature = "more") { 1000 } else { 0 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_right() {
        assert_eq!(super::answer(), 111);
    }
}
