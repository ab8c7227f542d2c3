//! Types whose values are numbers of catalog objects, with other types that only catalog columns
//! have.

use super::oid::TypeOid;

impl TypeOid {
    /// `regproc`
    pub const REGPROC: Self = Self(24);
    /// `regprocedure`
    pub const REGPROCEDURE: Self = Self(2202);
    /// `regoper`
    pub const REGOPER: Self = Self(2203);
    /// `regoperator`
    pub const REGOPERATOR: Self = Self(2204);
    /// `regtype`
    pub const REGTYPE: Self = Self(2206);
    /// `regtype[]`
    pub const REGTYPE_ARRAY: Self = Self(2211);
    /// `regrole`
    pub const REGROLE: Self = Self(4096);
    /// `regnamespace`
    pub const REGNAMESPACE: Self = Self(4089);
    /// `regcollation`
    pub const REGCOLLATION: Self = Self(4191);
    /// `int2vector`: an array of `int2` that begins at 0
    pub const INT2VECTOR: Self = Self(22);
    /// `oidvector`: an array of `oid` that begins at 0
    pub const OIDVECTOR: Self = Self(30);
    /// `pg_node_tree`: an expression in a catalog
    pub const PG_NODE_TREE: Self = Self(194);
    /// `aclitem`
    pub const ACLITEM: Self = Self(1033);
    /// `aclitem[]`
    pub const ACLITEM_ARRAY: Self = Self(1034);
    /// `inet`
    pub const INET: Self = Self(869);

    /// The types whose values are numbers shown as names, with their array types.
    pub const OBJECT_NAMES: [(Self, Self); 9] = [
        (Self::REGPROC, Self(1008)),
        (Self::REGPROCEDURE, Self(2207)),
        (Self::REGOPER, Self(2208)),
        (Self::REGOPERATOR, Self(2209)),
        (Self::REGCLASS, Self::REGCLASS_ARRAY),
        (Self::REGTYPE, Self::REGTYPE_ARRAY),
        (Self::REGROLE, Self(4097)),
        (Self::REGNAMESPACE, Self(4090)),
        (Self::REGCOLLATION, Self(4192)),
    ];

    /// Decides whether values are numbers of objects shown by the objects' names: `regclass` and
    /// its like.
    #[inline]
    pub const fn is_object_name(self) -> bool {
        matches!(
            self,
            Self::REGPROC
                | Self::REGPROCEDURE
                | Self::REGOPER
                | Self::REGOPERATOR
                | Self::REGCLASS
                | Self::REGTYPE
                | Self::REGROLE
                | Self::REGNAMESPACE
                | Self::REGCOLLATION
        )
    }

    /// Decides whether values are [`crate::Datum::Oid`].
    #[inline]
    pub const fn is_number_of_object(self) -> bool {
        matches!(self, Self::OID | Self::XID) || self.is_object_name()
    }

    /// Decides whether this is one of the two array types that begin at 0 and are shown without
    /// braces.
    #[inline]
    pub const fn is_vector(self) -> bool {
        matches!(self, Self::INT2VECTOR | Self::OIDVECTOR)
    }

    /// Returns the object type of the elements of an array type of object types.
    pub(crate) const fn object_element(self) -> Option<Self> {
        let mut number = 0;
        while number < Self::OBJECT_NAMES.len() {
            if Self::OBJECT_NAMES[number].1.0 == self.0 {
                return Some(Self::OBJECT_NAMES[number].0);
            }
            number += 1;
        }
        None
    }

    /// Returns the array type of an object type.
    pub(crate) const fn object_array(self) -> Option<Self> {
        let mut number = 0;
        while number < Self::OBJECT_NAMES.len() {
            if Self::OBJECT_NAMES[number].0.0 == self.0 {
                return Some(Self::OBJECT_NAMES[number].1);
            }
            number += 1;
        }
        None
    }

    /// Returns the name of one of these types.
    pub(crate) const fn object_type_name(self) -> Option<&'static str> {
        Some(match self {
            Self::REGPROC => "regproc",
            Self::REGPROCEDURE => "regprocedure",
            Self::REGOPER => "regoper",
            Self::REGOPERATOR => "regoperator",
            Self::REGTYPE => "regtype",
            Self::REGROLE => "regrole",
            Self::REGNAMESPACE => "regnamespace",
            Self::REGCOLLATION => "regcollation",
            Self::INT2VECTOR => "int2vector",
            Self::OIDVECTOR => "oidvector",
            Self::PG_NODE_TREE => "pg_node_tree",
            Self::ACLITEM => "aclitem",
            Self::INET => "inet",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_types_and_their_arrays_name_each_other() {
        for (object, array) in TypeOid::OBJECT_NAMES {
            assert!(object.is_object_name());
            assert_eq!(object.array(), Some(array));
            assert_eq!(array.element(), Some(object));
            assert_eq!(object.fixed_length(), Some(4));
        }
    }
}
